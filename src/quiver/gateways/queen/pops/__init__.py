"""What a pop gets: from which queues, from where on, and how it is shown."""
