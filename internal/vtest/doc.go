// Package vtest judges the store. It holds a reference model of a table's
// storage semantics, generators of random changes and queries, and the means
// to run both against a store and to compare what they say.
//
// The model keeps every change ever made as a list and computes an answer by
// Cassandra's reconciliation rules alone, so the order in which changes came
// cannot matter to it. It is slow and obvious on purpose: it shares no code
// and no idea with package store, from which it borrows only the plain types
// of slices and queries.
//
// It is imported by tests only.
package vtest
