"""A whole cluster in virtual time: nodes with the shipped brokers, a model of etcd, and what breaks between them."""
