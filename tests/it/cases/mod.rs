//! Every construct that a plan can hold, through the real kl on the real Terraform.

mod bed;
mod guards;
mod objects;
