//! `kl ci` end to end: real kl, real Terraform, a real database, and stand-ins for the forges over HTTP.

mod github;
