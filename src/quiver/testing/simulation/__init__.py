"""The simulator: brokers and clients as they are shipped, on virtual time, with faults, all of it from one seed."""
