"""Groups without order: any message may be given to anybody."""
