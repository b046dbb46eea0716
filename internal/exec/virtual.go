package exec

import (
	"context"

	"varve/internal/cql"
	"varve/internal/schema"
)

// VirtualTable answers reads of a table that is not stored: system.local,
// system_schema.*, system_views.* and the like. Definitions are in the
// schema snapshot with Virtual set; rows come from here.
type VirtualTable struct {
	Keyspace, Name string
	// Rows returns all rows, each one value a column in the order of
	// the table's partition key, clustering, static, regular columns (binary
	// form, nil null; multi-cell columns as a whole collection value). The
	// executor sorts, restricts, and pages them as it does stored rows.
	Rows func(ctx context.Context, e *Engine, s *Session) ([][][]byte, error)
}

// virtualTables lists every virtual table. (system tables' helper file.)
func virtualTables() []VirtualTable { return nil }

// runAdmin carries out the statements that are neither reads nor writes of
// rows: DDL, roles and grants, USE, DESCRIBE, LIST. ok is false for other statements.
func (e *Engine) runAdmin(ctx context.Context, s *Session, st cql.Statement, p *Params) (res *Result, ok bool, err error) {
	panic(errUnwritten)
}

// authorize checks that the session's role may do permission ("SELECT",
// "MODIFY", "CREATE", …) on the table, and returns an Unauthorized error otherwise.
func (e *Engine) authorize(s *Session, permission string, t *schema.Table) error {
	panic(errUnwritten)
}
