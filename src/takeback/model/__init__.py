"""Values, ids, records and the only places where hashed bytes are made."""
