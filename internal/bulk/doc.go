// Package bulk moves CSV into and out of a table of any CQL server.
//
// A field is the value's text: text and ascii as they are, other native types
// in their usual CQL text, collections, tuples, user types and vectors as JSON.
// An empty field is null.
package bulk
