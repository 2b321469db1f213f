"""Numbers about the broker for people and monitoring: collected from the parts that own them, when somebody asks."""
