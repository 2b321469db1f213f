"""Topics, groups, queues, dead letters, delayed messages, schedules, transactions."""
