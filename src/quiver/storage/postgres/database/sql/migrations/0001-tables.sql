create table start_epoch (
    only_row boolean primary key default true check (only_row),
    value bigint not null
);
insert into start_epoch (value) values (0);

create table log (
    id bigint generated always as identity primary key,
    name text collate "C" not null unique,
    owner bigint not null,
    owner_epoch bigint not null,
    start_offset bigint not null default 0,
    active_offset bigint not null default 0,
    end_offset bigint not null default 0,
    reserved_offset bigint not null default 0,
    last_epoch integer not null default -1,
    last_append_time_ms bigint not null default 0,
    epochs bytea not null default '',
    compaction bytea not null default ''
) with (
    fillfactor = 30,
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_cost_delay = 0
);
comment on column log.owner_epoch is 'raised by whoever takes the log over; an append with another one stores nothing';
comment on column log.active_offset is 'where the active segment begins; the closed ones are in segment';
comment on column log.end_offset is 'after the last frame';
comment on column log.reserved_offset is 'offsets below may have been given out without a frame that lasts';

create table segment (
    log bigint not null,
    base_offset bigint not null,
    size_bytes bigint not null,
    first_time_ms bigint not null,
    last_time_ms bigint not null,
    counts bigint[] not null,
    primary key (log, base_offset)
);
comment on column segment.counts is 'messages by priority';

create table snapshot (
    log bigint not null,
    at_offset bigint not null,
    data bytea not null,
    primary key (log, at_offset)
);
alter table snapshot alter column data set storage external;

create table frame (
    log bigint not null,
    base_offset bigint not null,
    next_offset bigint not null,
    append_time_ms bigint not null,
    message_count integer not null,
    priority smallint not null,
    data bytea not null,
    primary key (log, base_offset)
) partition by hash (log);
create index frame_priority on frame (log, priority, base_offset);
alter table frame alter column data set storage external;

do $$
begin
    for n in 0..7 loop
        execute format(
            'create table frame_%s partition of frame for values with (modulus 8, remainder %s) with ('
            'autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 2000, '
            'autovacuum_vacuum_insert_scale_factor = 0.2, autovacuum_vacuum_cost_delay = 0, '
            'toast.autovacuum_vacuum_scale_factor = 0.05, toast.autovacuum_vacuum_threshold = 100000, '
            'toast.autovacuum_vacuum_insert_scale_factor = 0.2, toast.autovacuum_vacuum_cost_delay = 0)',
            n, n);
        execute format('alter table frame_%s alter column data set storage external', n);
    end loop;
end
$$;
