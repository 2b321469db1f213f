"""A broker of several processes: a supervisor that forks workers, and what each of them is started with."""
