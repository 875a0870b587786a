//! Plain Terraform on a state of kl when things are not plain: it waits, is refused, is killed, sits at a terminal, reads
//! other states, writes for hours, and works beside runs of kl.

mod cost;
mod ends;
mod mixed;
mod reads;
mod refusals;
mod terminal;
mod waits;
