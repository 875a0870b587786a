//! Start-up of `kl`.

fn main() {}
