"""Other frameworks on takeback: each speaks its framework's own protocol, and needs the extra of its name."""
