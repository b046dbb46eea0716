// Package cqlfunc holds CQL's native functions, aggregates, casts and
// arithmetic, on values in binary form.
package cqlfunc
