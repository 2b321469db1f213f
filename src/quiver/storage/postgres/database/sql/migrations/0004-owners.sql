-- The owner of a log was a random number of a process; now it is the start epoch of whoever opened it.
update log set owner = 0;
comment on column log.owner is 'the start epoch of whoever opened it last; an earlier start cannot open it any more';
