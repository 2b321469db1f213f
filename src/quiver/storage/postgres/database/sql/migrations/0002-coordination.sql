create table coordination (
    only_row boolean primary key default true check (only_row),
    revision bigint not null default 0,
    forgotten_revision bigint not null default 0,
    last_lease_id bigint not null default 0
);
insert into coordination default values;
comment on table coordination is 'its row is locked by every change of keys, so revisions are in the order of commits';
comment on column coordination.forgotten_revision is 'changes up to this revision are no longer in coordination_change';

create table coordination_entry (
    key text collate "C" primary key,
    value bytea not null,
    revision bigint not null,
    lease_id bigint not null
);
create index coordination_entry_lease on coordination_entry (lease_id) where lease_id <> 0;

create table coordination_change (
    revision bigint not null,
    key text collate "C" not null,
    value bytea,
    primary key (revision, key)
);
comment on column coordination_change.value is 'null: the key was deleted';

create table coordination_lease (
    id bigint primary key,
    ttl_ms bigint not null,
    ends_at timestamptz not null
);

-- The caller has locked the row of coordination. Returns the revision after the change.
create function coordination_change_keys(
    put_keys text[], put_values bytea[], put_lease_ids bigint[], deleted_keys text[], kept_revisions bigint
) returns bigint language plpgsql as $$
declare
    old_revision bigint;
    deleted_count integer;
begin
    select revision into strict old_revision from coordination;
    with deleted as (
        delete from coordination_entry where key = any (deleted_keys) returning key
    )
    insert into coordination_change (revision, key) select old_revision + 1, key from deleted;
    get diagnostics deleted_count = row_count;
    if deleted_count = 0 and cardinality(put_keys) = 0 then
        return old_revision;
    end if;
    insert into coordination_entry (key, value, revision, lease_id)
    select p.key, p.value, old_revision + 1, p.lease_id
    from unnest(put_keys, put_values, put_lease_ids) as p (key, value, lease_id)
    on conflict (key) do update
        set value = excluded.value, revision = excluded.revision, lease_id = excluded.lease_id;
    insert into coordination_change (revision, key, value)
    select old_revision + 1, p.key, p.value from unnest(put_keys, put_values) as p (key, value);
    delete from coordination_change where revision <= old_revision + 1 - kept_revisions;
    update coordination set
        revision = old_revision + 1,
        forgotten_revision = greatest(forgotten_revision, old_revision + 1 - kept_revisions);
    perform pg_notify('quiver_' || current_schema(), '');
    return old_revision + 1;
end
$$;

create function coordination_commit(
    expected_keys text[], expected_revisions bigint[],
    put_keys text[], put_values bytea[], put_lease_ids bigint[], deleted_keys text[],
    kept_revisions bigint,
    out succeeded boolean, out at_revision bigint, out missing_lease_id bigint
) language plpgsql as $$
begin
    select revision into strict at_revision from coordination for update;
    missing_lease_id := 0;
    succeeded := not exists (
        select from unnest(expected_keys, expected_revisions) as e (key, revision)
        left join coordination_entry as c on c.key = e.key collate "C"
        where coalesce(c.revision, 0) <> e.revision
    );
    if not succeeded then
        return;
    end if;
    missing_lease_id := coalesce((
        select p.lease_id from unnest(put_lease_ids) as p (lease_id)
        where p.lease_id <> 0 and not exists (
            select from coordination_lease as l where l.id = p.lease_id and l.ends_at > clock_timestamp()
        )
        limit 1
    ), 0);
    if missing_lease_id <> 0 then
        succeeded := false;
        return;
    end if;
    at_revision := coordination_change_keys(put_keys, put_values, put_lease_ids, deleted_keys, kept_revisions);
end
$$;

create function coordination_grant_lease(ttl_ms bigint) returns bigint language sql as $$
    with next as (
        update coordination set last_lease_id = last_lease_id + 1 returning last_lease_id
    )
    insert into coordination_lease (id, ttl_ms, ends_at)
    select last_lease_id, $1, clock_timestamp() + $1 * interval '1 millisecond' from next
    returning id
$$;

-- Ends a lease, or with null all whose time is up, each with its keys in a revision of its own.
create function coordination_end_leases(ended_lease_id bigint, kept_revisions bigint)
returns void language plpgsql as $$
declare
    ended bigint;
begin
    perform revision from coordination for update;
    for ended in
        delete from coordination_lease
        where case when ended_lease_id is null then ends_at <= clock_timestamp() else id = ended_lease_id end
        returning id
    loop
        perform coordination_change_keys(
            '{}', '{}', '{}',
            array(select key::text from coordination_entry where lease_id = ended), kept_revisions
        );
    end loop;
end
$$;
