//! Isolated working directories in which a configuration behaves as in its checkout.
