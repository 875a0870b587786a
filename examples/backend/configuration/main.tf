# A configuration that keeps its state behind `kl serve`. Address and token come from the environment (TF_HTTP_ADDRESS,
# TF_HTTP_PASSWORD, …), so that neither stands in the repository, or in plan files and .terraform.
terraform {
  required_version = ">= 1.4"
  backend "http" {}
}

variable "release" {
  type    = string
  default = "1"
}

resource "terraform_data" "network" {
  input = "10.0.0.0/16"
}

resource "terraform_data" "web" {
  input = "release ${var.release} in ${terraform_data.network.output}"
}

output "web" {
  value = terraform_data.web.output
}
