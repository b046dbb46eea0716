package cql

func (w *printer) statement(s Statement) {
	switch s := s.(type) {
	case *Select:
		w.selectStatement(s)
	case *Insert:
		w.insert(s)
	case *Update:
		w.update(s)
	case *Delete:
		w.delete(s)
	case *Batch:
		w.batch(s)
	case *Truncate:
		w.put("TRUNCATE ")
		w.object(s.Table)
	case *Use:
		w.put("USE ")
		w.name(s.Keyspace)
	case *Describe:
		w.describe(s)
	case *Unsupported:
		w.put("/* unsupported: ", s.Feature, " */")
	default:
		w.definition(s)
	}
}

func (w *printer) selectStatement(s *Select) {
	w.put("SELECT ")
	w.when(s.JSON, "JSON ")
	w.when(s.Distinct, "DISTINCT ")
	w.when(len(s.Items) == 0, "*")
	for i, it := range s.Items {
		w.comma(i)
		w.expr(it.Expr)
		if it.Alias != "" {
			w.put(" AS ")
			w.name(it.Alias)
		}
	}
	w.put(" FROM ")
	w.object(s.Table)
	w.where(s.Where)
	if len(s.GroupBy) > 0 {
		w.exprs(" GROUP BY ", s.GroupBy, "")
	}
	for i, o := range s.OrderBy {
		w.when(i == 0, " ORDER BY ")
		w.comma(i)
		w.name(o.Column)
		if o.Ann != nil {
			w.put(" ANN OF ")
			w.expr(o.Ann)
		}
		w.when(o.Desc, " DESC")
	}
	w.clause(" PER PARTITION LIMIT ", s.PerPartitionLimit)
	w.clause(" LIMIT ", s.Limit)
	w.when(s.AllowFiltering, " ALLOW FILTERING")
}

// clause writes head and e if there is an e.
func (w *printer) clause(head string, e Expr) {
	if e != nil {
		w.put(head)
		w.expr(e)
	}
}

var opTexts = [...]string{
	Eq: " = ", Ne: " != ", Lt: " < ", Le: " <= ", Gt: " > ", Ge: " >= ", In: " IN ", NotIn: " NOT IN ",
	Contains: " CONTAINS ", ContainsKey: " CONTAINS KEY ", NotContains: " NOT CONTAINS ",
	NotContainsKey: " NOT CONTAINS KEY ", Like: " LIKE ", IsNotNull: " IS NOT NULL", Ann: " ANN OF ",
}

// String returns the operator as CQL writes it.
func (o Op) String() string {
	s := opTexts[o]
	if o == IsNotNull {
		return s[1:]
	}
	return s[1 : len(s)-1]
}

func (w *printer) where(list []Relation) {
	for i := range list {
		r := &list[i]
		w.when(i == 0, " WHERE ")
		w.when(i > 0, " AND ")
		w.when(r.Token, "token")
		w.when(r.Token || r.Tuple, "(")
		w.names(r.Columns)
		w.when(r.Token || r.Tuple, ")")
		w.key(r.Key)
		w.right(r.Op, r.Value, r.Values)
	}
}

func (w *printer) key(e Expr) {
	if e != nil {
		w.put("[")
		w.expr(e)
		w.put("]")
	}
}

func (w *printer) right(op Op, value Expr, values []Expr) {
	w.put(opTexts[op])
	switch {
	case op == IsNotNull:
	case value != nil:
		w.expr(value)
	default:
		w.exprs("(", values, ")")
	}
}

func (w *printer) using(u Using) {
	w.clause(" USING TIMESTAMP ", u.Timestamp)
	if u.Timestamp == nil {
		w.clause(" USING TTL ", u.TTL)
	} else {
		w.clause(" AND TTL ", u.TTL)
	}
}

func (w *printer) insert(s *Insert) {
	w.put("INSERT INTO ")
	w.object(s.Table)
	if s.JSON != nil {
		w.put(" JSON ")
		w.expr(s.JSON)
		w.when(!s.DefaultNull, " DEFAULT UNSET")
	} else {
		w.put(" (")
		w.names(s.Columns)
		w.exprs(") VALUES (", s.Values, ")")
	}
	w.when(s.IfNotExists, " IF NOT EXISTS")
	w.using(s.Using)
}

func (w *printer) update(s *Update) {
	w.put("UPDATE ")
	w.object(s.Table)
	w.using(s.Using)
	w.put(" SET ")
	for i := range s.Set {
		w.comma(i)
		w.assignment(&s.Set[i])
	}
	w.where(s.Where)
	w.conditions(s.If, s.IfExists)
}

func (w *printer) assignment(a *Assignment) {
	w.name(a.Column)
	switch a.Op {
	case AssignAdd:
		w.put(" += ")
	case AssignSub:
		w.put(" -= ")
	case AssignElement:
		w.key(a.Key)
		w.put(" = ")
	case AssignField:
		w.put(".")
		w.name(a.Field)
		w.put(" = ")
	default:
		w.put(" = ")
	}
	w.expr(a.Value)
	if a.Op == AssignPrepend {
		w.put(" + ")
		w.name(a.Column)
	}
}

func (w *printer) conditions(list []Condition, exists bool) {
	w.when(exists, " IF EXISTS")
	for i := range list {
		c := &list[i]
		w.when(i == 0, " IF ")
		w.when(i > 0, " AND ")
		w.name(c.Column)
		w.key(c.Key)
		if c.Field != "" {
			w.put(".")
			w.name(c.Field)
		}
		w.right(c.Op, c.Value, c.Values)
	}
}

func (w *printer) delete(s *Delete) {
	w.put("DELETE ")
	for i, d := range s.Columns {
		w.comma(i)
		w.name(d.Column)
		w.key(d.Key)
		if d.Field != "" {
			w.put(".")
			w.name(d.Field)
		}
	}
	w.when(len(s.Columns) > 0, " ")
	w.put("FROM ")
	w.object(s.Table)
	w.using(s.Using)
	w.where(s.Where)
	w.conditions(s.If, s.IfExists)
}

func (w *printer) batch(s *Batch) {
	w.put("BEGIN ", [...]string{"", "UNLOGGED ", "COUNTER "}[s.Kind], "BATCH")
	w.using(s.Using)
	for _, m := range s.Statements {
		w.put(" ")
		w.statement(m)
		w.put(";")
	}
	w.put(" APPLY BATCH")
}

func (w *printer) describe(d *Describe) {
	w.put("DESCRIBE ")
	w.when(d.Only, "ONLY ")
	if d.What != "any" {
		w.put(d.What, " ")
	}
	switch {
	case d.Name.Name != "":
		w.object(d.Name)
	case d.Name.Keyspace != "":
		w.name(d.Name.Keyspace)
	}
	w.when(d.Internals, " WITH INTERNALS")
}
