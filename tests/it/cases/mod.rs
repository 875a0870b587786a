//! Every construct that a plan can hold, through the real kl on the real Terraform.

mod bed;
mod failures;
mod guards;
mod leaks;
mod modules;
mod moves;
mod objects;
mod outputs;
mod random;
mod scope;
mod stale;
