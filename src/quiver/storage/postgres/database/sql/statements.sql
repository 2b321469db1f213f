-- append: the fence is in the update: a log whose owner or end is not the expected one gets nothing
with fenced as (
    update log set end_offset = a.end_offset, last_append_time_ms = a.time_ms
    from unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[])
        as a (log, owner_epoch, old_end, end_offset, time_ms)
    where log.id = a.log and log.owner_epoch = a.owner_epoch and log.end_offset = a.old_end
    returning log.id
), stored as (
    insert into frame (log, base_offset, next_offset, append_time_ms, message_count, priority, data)
    select f.log, f.base_offset, f.next_offset, f.append_time_ms, f.message_count, f.priority, f.data
    from unnest($6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[], $10::integer[], $11::smallint[], $12::bytea[])
        as f (log, base_offset, next_offset, append_time_ms, message_count, priority, data)
    join fenced on fenced.id = f.log
)
select id, (select set_config('synchronous_commit', $13, true)) from fenced

-- append_with_changes: as append, where a log also gets an epoch, closed segments or a reservation
with fenced as (
    update log set
        end_offset = a.end_offset, last_append_time_ms = a.time_ms, last_epoch = a.last_epoch,
        epochs = coalesce(a.epochs, log.epochs), active_offset = a.active_offset, reserved_offset = a.reserved_offset
    from unnest(
            $1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[],
            $14::integer[], $15::bytea[], $16::bigint[], $17::bigint[]
        ) as a (
            log, owner_epoch, old_end, end_offset, time_ms,
            last_epoch, epochs, active_offset, reserved_offset
        )
    where log.id = a.log and log.owner_epoch = a.owner_epoch and log.end_offset = a.old_end
    returning log.id
), stored as (
    insert into frame (log, base_offset, next_offset, append_time_ms, message_count, priority, data)
    select f.log, f.base_offset, f.next_offset, f.append_time_ms, f.message_count, f.priority, f.data
    from unnest($6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[], $10::integer[], $11::smallint[], $12::bytea[])
        as f (log, base_offset, next_offset, append_time_ms, message_count, priority, data)
    join fenced on fenced.id = f.log
), closed as (
    insert into segment (log, base_offset, size_bytes, first_time_ms, last_time_ms, counts)
    select s.log, s.base_offset, s.size_bytes, s.first_time_ms, s.last_time_ms, s.counts::bigint[]
    from unnest($18::bigint[], $19::bigint[], $20::bigint[], $21::bigint[], $22::bigint[], $23::text[])
        as s (log, base_offset, size_bytes, first_time_ms, last_time_ms, counts)
    join fenced on fenced.id = s.log
    on conflict (log, base_offset) do update set
        size_bytes = excluded.size_bytes, first_time_ms = excluded.first_time_ms,
        last_time_ms = excluded.last_time_ms, counts = excluded.counts
)
select id, (select set_config('synchronous_commit', $13, true)) from fenced

-- flush: what was committed before is on disk when this returns; the ends tell whether it was still there
select l.id, l.end_offset, set_config('synchronous_commit', 'on', true)
from (select pg_logical_emit_message(true, 'quiver', '')) as written, log as l
where l.id = any($1::bigint[])

-- read
select data, next_offset from (
    select base_offset, data, next_offset, octet_length(data) as size,
        sum(octet_length(data)) over (order by base_offset rows unbounded preceding) as total
    from (
        select base_offset, data, next_offset from frame
        where log = $1 and next_offset > $2 and next_offset <= $3 and base_offset >= coalesce(
            (select max(base_offset) from frame where log = $1 and base_offset <= $2), $2)
        order by base_offset limit $5
    ) as ahead
) as run
where total <= $4 or total = size
order by base_offset

-- read_from_standby: nothing from a server that is no standby of the same cluster
select data, next_offset from (
    select base_offset, data, next_offset, octet_length(data) as size,
        sum(octet_length(data)) over (order by base_offset rows unbounded preceding) as total
    from (
        select base_offset, data, next_offset from frame
        where log = $1 and next_offset > $2 and next_offset <= $3 and base_offset >= coalesce(
            (select max(base_offset) from frame where log = $1 and base_offset <= $2), $2)
        order by base_offset limit $5
    ) as ahead
) as run
where (total <= $4 or total = size)
    and pg_is_in_recovery() and (select system_identifier from pg_control_system()) = $6
order by base_offset

-- find_priority
select min(found.base_offset) from unnest($3::smallint[]) as wanted (priority), lateral (
    (
        select base_offset, next_offset from frame
        where log = $1 and priority = wanted.priority and base_offset <= $2 and base_offset >= $5
        order by base_offset desc limit 1
    ) union all (
        select base_offset, next_offset from frame
        where log = $1 and priority = wanted.priority and base_offset > $2 and base_offset < $4
        order by base_offset limit 1
    )
) as found
where found.next_offset > $2

-- find_time
select base_offset from frame
where log = $1 and base_offset >= $2 and base_offset < $3 and append_time_ms >= $4
order by base_offset limit 1

-- frame_extents
select base_offset, next_offset, message_count, priority, octet_length(data) as size, append_time_ms from frame
where log = $1 and base_offset >= $2 and base_offset < $3 order by base_offset

-- frame_before
select base_offset, next_offset, append_time_ms, message_count, priority from frame
where log = $1 and base_offset < $2 and base_offset >= $3 order by base_offset desc limit 1

-- header_at
select substring(data from 1 for 88) as header from frame where log = $1 and next_offset = $2 and base_offset = $3

-- frames_of_segment
select data from frame where log = $1 and base_offset >= $2 and base_offset < $3 order by base_offset

-- open_log: creates it, or takes it over; nothing where a later start has it
insert into log (name, owner, owner_epoch) values ($1, $2, 1)
on conflict (name) do update set owner = $2, owner_epoch = log.owner_epoch + 1 where log.owner <= $2
returning *

-- take_again: whatever this owner has under way elsewhere stores nothing from now on
update log set owner_epoch = owner_epoch + 1 where id = $1 and owner = $2 returning *

-- segments
select base_offset, size_bytes, first_time_ms, last_time_ms, counts from segment where log = $1 order by base_offset

-- check_owner
select 1 from log where id = $1 and owner_epoch = $2 for share

-- roll
update log set active_offset = $3 where id = $1 and owner_epoch = $2 returning id

-- add_segment
insert into segment (log, base_offset, size_bytes, first_time_ms, last_time_ms, counts)
values ($1, $2, $3, $4, $5, $6)
on conflict (log, base_offset) do update set
    size_bytes = excluded.size_bytes, first_time_ms = excluded.first_time_ms,
    last_time_ms = excluded.last_time_ms, counts = excluded.counts

-- reserve
update log set reserved_offset = $3 where id = $1 and owner_epoch = $2 returning id

-- drop_front
with fenced as (
    update log set start_offset = greatest(start_offset, $3) where id = $1 and owner_epoch = $2 returning id
), removed as (
    delete from segment using fenced where segment.log = fenced.id and segment.base_offset < $3
)
select id from fenced

-- delete_frames
delete from frame where log = $1 and base_offset >= $2 and base_offset < $3

-- remove_frames: how many bytes of which table, and how many it has
with gone as (
    delete from frame where log = $1 and base_offset >= $2 and base_offset < $3
    returning tableoid, octet_length(data) as size
)
select tableoid::regclass::text, sum(size)::bigint, pg_table_size(tableoid) from gone group by tableoid

-- first_frame
select min(base_offset) from frame where log = $1

-- truncate
update log set end_offset = $3, reserved_offset = $4, active_offset = $5, last_epoch = $6, last_append_time_ms = $7,
    epochs = $8, compaction = $9
where id = $1 and owner_epoch = $2 returning id

-- delete_segments
delete from segment where log = $1 and base_offset >= $2 and base_offset < $3

-- delete_snapshots_above
delete from snapshot where log = $1 and at_offset > $2

-- insert_frames
insert into frame (log, base_offset, next_offset, append_time_ms, message_count, priority, data)
select $1, f.* from unnest($2::bigint[], $3::bigint[], $4::bigint[], $5::integer[], $6::smallint[], $7::bytea[]) as f

-- save_progress
update log set compaction = $3 where id = $1 and owner_epoch = $2 returning id

-- save_snapshot
insert into snapshot (log, at_offset, data) select id, $3, $4 from log where id = $1 and owner_epoch = $2
on conflict (log, at_offset) do update set data = excluded.data
returning log

-- delete_old_snapshots
delete from snapshot where log = $1 and at_offset < (
    select min(at_offset) from (
        select at_offset from snapshot where log = $1 order by at_offset desc limit $2
    ) as kept
)

-- load_snapshot
select at_offset, data from snapshot
where log = $1 and at_offset <= $2 and at_offset <> all($3::bigint[]) order by at_offset desc limit 1

-- list_logs
select name from log where starts_with(name, $1) order by name

-- logs_below
select id, name from log where starts_with(name || '/', $1)

-- delete_log
with gone as (delete from log where id = $1), segments as (delete from segment where log = $1)
delete from snapshot where log = $1

-- next_start_epoch
update start_epoch set value = value + 1 returning value

-- system_identifier
select system_identifier from pg_control_system()

-- coordination_get
select value, revision from coordination_entry where key = $1

-- coordination_range: a row without a key where nothing is there; all as of one revision
select c.revision, e.key, e.value, e.revision as changed
from coordination as c left join coordination_entry as e on starts_with(e.key, $1)
order by e.key

-- coordination_commit
select succeeded, at_revision, missing_lease_id
from coordination_commit($1::text[], $2::bigint[], $3::text[], $4::bytea[], $5::bigint[], $6::text[], $7)

-- coordination_changes: of at most $3 revisions after $1; a row without a key where there are none
select c.revision, c.forgotten_revision, h.key, h.value, h.revision as changed
from coordination as c
left join coordination_change as h on h.revision > $1 and h.revision <= $1 + $3::bigint and starts_with(h.key, $2)
order by h.revision, h.key

-- coordination_grant_lease
select coordination_grant_lease($1)

-- coordination_keep_alive: also when its time is up, as long as nobody has ended it
update coordination_lease set ends_at = clock_timestamp() + ttl_ms * interval '1 millisecond'
where id = $1
returning id

-- coordination_end_lease
select coordination_end_leases($1, $2)

-- coordination_next_end: in how many milliseconds the next lease ends
select greatest(0, ceil(extract(epoch from
    greatest(min(ends_at), coordination_leases_last_until()) - clock_timestamp()) * 1000))::bigint
from coordination_lease having count(*) > 0

-- server_life: another one after every start, crash and promotion
select coordination_leases_last_until()

-- installation
select (select system_identifier from pg_control_system()) || '/' || oid || '/' || $1::text
from pg_database where datname = current_database()

-- log_named
select id from log where name = $1

-- headers_from
select substring(data from 1 for 88) as header from frame where log = $1 and base_offset >= $2 order by base_offset

-- buffer_position
select position from buffer_progress where buffer = $1 and log = $2

-- note_buffer_progress
insert into buffer_progress (buffer, log, position) select $1, p.* from unnest($2::bigint[], $3::bigint[]) as p
on conflict (buffer, log) do update set position = excluded.position

-- forget_buffer
delete from buffer_progress where buffer = $1
