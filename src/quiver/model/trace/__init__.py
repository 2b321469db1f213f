"""What is known of single messages: their lives, and the spans of their traces."""
