"""Matrix instructions: which lane holds which element, and the products of fragments."""
