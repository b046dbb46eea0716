// Package e2e drives the real varve binary with a real driver.
package e2e
