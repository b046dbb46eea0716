// Package config holds the server's configuration: one struct with documented
// defaults, read from a YAML file, the environment and flags, in that order of
// rising precedence. Unknown keys are refused with their place.
package config
