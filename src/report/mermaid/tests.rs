//! What the diagrams look like, by example.
