"""Variables, their scopes, initializers and regularizers."""
