-- How far the local buffer of a broker is stored, while it is being stored.
create table buffer_progress (
    buffer bytea not null,
    log bigint not null,
    position bigint not null,
    primary key (buffer, log)
);
comment on column buffer_progress.position is 'in the file of the buffer; what lies below is in frame';
