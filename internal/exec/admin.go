package exec

import (
	"context"

	"varve/internal/cql"
	"varve/internal/cqltype"
	"varve/internal/cqlwire"
)

// runAdmin carries out the statements that are neither reads nor writes of
// rows: DDL, roles and grants, USE, DESCRIBE, LIST. ok is false for other statements.
func (e *Engine) runAdmin(ctx context.Context, s *Session, st cql.Statement, p *Params) (res *Result, ok bool, err error) {
	a := &adminRun{e: e, s: s, keyspace: s.Keyspace, move: p.Move}
	if p.Keyspace != "" {
		a.keyspace = p.Keyspace
	}
	switch st := st.(type) {
	case *cql.Use:
		res, err = a.use(st)
	case *cql.Truncate:
		res, err = a.truncate(ctx, st)
	case *cql.Describe:
		res, err = a.describe(st)
	case *cql.CreateKeyspace, *cql.AlterKeyspace, *cql.DropKeyspace, *cql.CreateTable, *cql.AlterTable, *cql.DropTable,
		*cql.CreateType, *cql.AlterType, *cql.DropType, *cql.CreateIndex, *cql.DropIndex, *cql.Unsupported:
		res, err = a.changeSchema(ctx, st)
	case *cql.CreateRole, *cql.AlterRole, *cql.DropRole, *cql.GrantRole, *cql.GrantPermission:
		res, err = a.changeRoles(ctx, st)
	case *cql.ListRoles:
		res, err = a.listRoles(st)
	case *cql.ListPermissions:
		res, err = a.listPermissions(st)
	default:
		return nil, false, nil
	}
	return res, true, err
}

// adminRun is one administrative statement being carried out.
type adminRun struct {
	e        *Engine
	s        *Session
	keyspace string // of the session, or of the request where it names one
	move     string // the request's varve-move token
}

// keyspaceOf is the keyspace a name is in.
func (a *adminRun) keyspaceOf(written string) (string, error) {
	if written != "" {
		return written, nil
	}
	if a.keyspace == "" {
		return "", invalidf("No keyspace has been specified. USE a keyspace, or explicitly specify keyspace.tablename")
	}
	return a.keyspace, nil
}

func (a *adminRun) use(st *cql.Use) (*Result, error) {
	if a.e.opts.Catalog.Snapshot().Keyspaces[st.Keyspace] == nil {
		return nil, invalidf("Keyspace '%s' does not exist", st.Keyspace)
	}
	a.s.Keyspace = st.Keyspace
	return &Result{Kind: cqlwire.ResultSetKeyspace, Keyspace: st.Keyspace}, nil
}

func voidResult() *Result { return &Result{Kind: cqlwire.ResultVoid} }

// resultTable builds the rows of an administrative answer.
type resultTable struct{ res *Result }

// newResultTable starts a result. columns alternates names and types.
func newResultTable(keyspace, table string, names []string, types ...*cqltype.Type) *resultTable {
	res := &Result{Kind: cqlwire.ResultRows}
	for i, name := range names {
		res.Columns = append(res.Columns, cqlwire.ColumnSpec{Keyspace: keyspace, Table: table, Name: name, Type: types[i]})
	}
	return &resultTable{res: res}
}

// row adds a row; nil is null.
func (t *resultTable) row(cells ...[]byte) {
	for _, c := range cells {
		t.res.Data = appendCell(t.res.Data, c)
	}
	t.res.Count++
}
