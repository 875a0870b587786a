//! The real Terraform or OpenTofu binary: finding it, calling it, reading what it says.
