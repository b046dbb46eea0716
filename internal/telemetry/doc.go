// Package telemetry sets up the structured log.
package telemetry
