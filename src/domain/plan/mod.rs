//! From Terraform's plan to a spec: reading plan JSON, the write set, digests, and comparing two plans.

pub mod action;
pub mod changed;
pub mod compare;
pub mod fingerprint;
pub mod footprint;
pub mod leak;
pub mod plan_json;
pub mod resume;
pub mod secrets;
pub mod spec;
