package cql

import "slices"

// definition writes statements that define things and rights.
func (w *printer) definition(s Statement) {
	switch s := s.(type) {
	case *CreateKeyspace:
		w.put("CREATE KEYSPACE ")
		w.when(s.IfNotExists, "IF NOT EXISTS ")
		w.name(s.Name)
		w.with(s.With, 0)
	case *AlterKeyspace:
		w.put("ALTER KEYSPACE ")
		w.when(s.IfExists, "IF EXISTS ")
		w.name(s.Name)
		w.with(s.With, 0)
	case *DropKeyspace:
		w.drop("KEYSPACE", s.IfExists, Name{Name: s.Name})
	case *CreateTable:
		w.createTable(s)
	case *AlterTable:
		w.alterTable(s)
	case *DropTable:
		w.drop("TABLE", s.IfExists, s.Table)
	case *CreateType:
		w.put("CREATE TYPE ")
		w.when(s.IfNotExists, "IF NOT EXISTS ")
		w.object(s.Type)
		w.put(" (")
		for i, f := range s.Fields {
			w.comma(i)
			w.column(ColumnDef{Name: f, Type: s.Types[i]})
		}
		w.put(")")
	case *AlterType:
		w.alterType(s)
	case *DropType:
		w.drop("TYPE", s.IfExists, s.Type)
	case *CreateIndex:
		w.createIndex(s)
	case *DropIndex:
		w.drop("INDEX", s.IfExists, s.Name)
	default:
		w.rights(s)
	}
}

func (w *printer) drop(what string, exists bool, n Name) {
	w.put("DROP ", what, " ")
	w.when(exists, "IF EXISTS ")
	w.object(n)
}

// with writes properties; n of the clause are already written.
func (w *printer) with(list []Property, n int) {
	for i := range list {
		w.and(n + i)
		w.name(list[i].Name)
		w.put(" = ")
		if list[i].Value != nil {
			w.literal(list[i].Value)
		} else {
			w.stringMap(list[i].Map, list[i].Keys)
		}
	}
}

// and writes WITH before the first item of a clause and AND before others.
func (w *printer) and(i int) {
	w.when(i == 0, " WITH ")
	w.when(i > 0, " AND ")
}

func (w *printer) stringMap(m map[string]string, keys []string) {
	w.put("{")
	for i, k := range keys {
		w.comma(i)
		w.str(k)
		w.put(": ")
		w.str(m[k])
	}
	w.put("}")
}

func (w *printer) column(c ColumnDef) {
	w.name(c.Name)
	w.put(" ")
	w.typeRef(c.Type)
	w.when(c.Static, " STATIC")
	w.when(c.Mask, " MASKED WITH DEFAULT")
	w.when(c.PrimaryKey, " PRIMARY KEY")
}

func (w *printer) createTable(s *CreateTable) {
	w.put("CREATE TABLE ")
	w.when(s.IfNotExists, "IF NOT EXISTS ")
	w.object(s.Table)
	w.put(" (")
	inline := 0
	for i, c := range s.Columns {
		w.comma(i)
		w.column(c)
		if c.PrimaryKey {
			inline++
		}
	}
	if s.HasPrimaryKey > inline {
		w.comma(len(s.Columns))
		w.put("PRIMARY KEY ((")
		w.names(s.PartitionKey)
		w.put(")")
		for _, c := range s.Clustering {
			w.put(", ")
			w.name(c)
		}
		w.put(")")
	}
	w.put(")")
	n := 0
	if s.CompactStorage {
		w.and(n)
		w.put("COMPACT STORAGE")
		n++
	}
	for i, o := range s.Order {
		if i == 0 {
			w.and(n)
			n++
			w.put("CLUSTERING ORDER BY (")
		}
		w.comma(i)
		w.name(o.Column)
		w.put([...]string{" ASC", " DESC"}[b2i(o.Desc)])
		w.when(i == len(s.Order)-1, ")")
	}
	w.with(s.With, n)
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

func (w *printer) alterTable(s *AlterTable) {
	w.put("ALTER TABLE ")
	w.when(s.IfExists, "IF EXISTS ")
	w.object(s.Table)
	switch {
	case s.AlterColumn != "" || s.Mask:
		w.put(" ALTER ")
		w.name(s.AlterColumn)
		if s.Mask {
			w.put(" MASKED WITH DEFAULT")
			return
		}
		w.put(" TYPE ")
		w.typeRef(s.AlterType)
	case len(s.Add) > 0:
		w.put(" ADD ")
		w.when(s.AddIfNotExists, "IF NOT EXISTS ")
		w.put("(")
		for i, c := range s.Add {
			w.comma(i)
			w.column(c)
		}
		w.put(")")
	case s.DropCompact:
		w.put(" DROP COMPACT STORAGE")
	case len(s.Drop) > 0:
		w.put(" DROP ")
		w.when(s.DropIfExists, "IF EXISTS ")
		w.put("(")
		w.names(s.Drop)
		w.put(")")
		w.clause(" USING TIMESTAMP ", s.DropTimestamp)
	case len(s.RenameFrom) > 0:
		w.renames(s.RenameIfExists, s.RenameFrom, s.RenameTo)
	default:
		w.with(s.With, 0)
	}
}

func (w *printer) renames(exists bool, from, to []string) {
	w.put(" RENAME ")
	w.when(exists, "IF EXISTS ")
	for i := range from {
		w.when(i > 0, " AND ")
		w.name(from[i])
		w.put(" TO ")
		w.name(to[i])
	}
}

func (w *printer) alterType(s *AlterType) {
	w.put("ALTER TYPE ")
	w.when(s.IfExists, "IF EXISTS ")
	w.object(s.Type)
	switch {
	case len(s.RenameFrom) > 0:
		w.renames(s.RenameIfExists, s.RenameFrom, s.RenameTo)
	case s.AlterField != "":
		w.put(" ALTER ")
		w.name(s.AlterField)
		w.put(" TYPE ")
		w.typeRef(s.AddType)
	default:
		w.put(" ADD ")
		w.when(s.AddIfNotExists, "IF NOT EXISTS ")
		w.name(s.AddField)
		w.put(" ")
		w.typeRef(s.AddType)
	}
}

func (w *printer) createIndex(s *CreateIndex) {
	w.put("CREATE ")
	w.when(s.Custom, "CUSTOM ")
	w.put("INDEX ")
	w.when(s.IfNotExists, "IF NOT EXISTS ")
	if s.Name.Name != "" {
		w.name(s.Name.Name)
		w.put(" ")
	}
	w.put("ON ")
	w.object(s.Table)
	w.put(" (")
	for i, t := range s.Targets {
		w.comma(i)
		w.put(t.Kind)
		w.when(t.Kind != "", "(")
		w.name(t.Column)
		w.when(t.Kind != "", ")")
	}
	w.put(")")
	if s.Using != "" {
		w.put(" USING ")
		w.str(s.Using)
	}
	w.with(s.With, 0)
}

// rights writes statements of roles and permissions.
func (w *printer) rights(s Statement) {
	switch s := s.(type) {
	case *CreateRole:
		w.put("CREATE ", roleOrUser(s.User))
		w.when(s.IfNotExists, "IF NOT EXISTS ")
		w.role(s.Role, s.User, &s.Options)
	case *AlterRole:
		w.put("ALTER ", roleOrUser(s.User))
		w.when(s.IfExists, "IF EXISTS ")
		w.role(s.Role, s.User, &s.Options)
	case *DropRole:
		w.put("DROP ", roleOrUser(s.User))
		w.when(s.IfExists, "IF EXISTS ")
		w.str(s.Role)
	case *GrantRole:
		w.put(grantOrRevoke(s.Revoke))
		w.str(s.Role)
		w.put(toOrFrom(s.Revoke))
		w.str(s.Grantee)
	case *GrantPermission:
		w.put(grantOrRevoke(s.Revoke))
		w.permissions(s.Permissions)
		w.put(" ON ")
		w.resource(s.Resource)
		w.put(toOrFrom(s.Revoke))
		w.str(s.Role)
	case *ListPermissions:
		w.put("LIST ")
		w.permissions(s.Permissions)
		if s.Resource != nil {
			w.put(" ON ")
			w.resource(*s.Resource)
		}
		w.of(s.Of, s.NoRecursive)
	case *ListRoles:
		if s.Users {
			w.put("LIST USERS")
			return
		}
		w.put("LIST ROLES")
		w.of(s.Of, s.NoRecursive)
	}
}

func roleOrUser(user bool) string { return [...]string{"ROLE ", "USER "}[b2i(user)] }

func grantOrRevoke(revoke bool) string { return [...]string{"GRANT ", "REVOKE "}[b2i(revoke)] }

func toOrFrom(revoke bool) string { return [...]string{" TO ", " FROM "}[b2i(revoke)] }

func (w *printer) of(role string, noRecursive bool) {
	if role != "" {
		w.put(" OF ")
		w.str(role)
	}
	w.when(noRecursive, " NORECURSIVE")
}

func (w *printer) permissions(list []string) {
	w.when(len(list) == 0, "ALL")
	for i, s := range list {
		w.comma(i)
		w.put(s)
	}
}

func (w *printer) resource(r Resource) {
	switch r.Kind {
	case "keyspace":
		w.put("KEYSPACE ")
		w.name(r.Name.Keyspace)
	case "table":
		w.put("TABLE ")
		w.object(r.Name)
	case "all tables", "all functions":
		w.put(r.Kind)
		if r.Name.Keyspace != "" {
			w.put(" IN KEYSPACE ")
			w.name(r.Name.Keyspace)
		}
	case "role", "mbean":
		w.put(r.Kind, " ")
		w.str(r.Name.Name)
	case "function":
		w.put("FUNCTION ")
		w.object(r.Name)
		w.put("()")
	default:
		w.put(r.Kind)
	}
}

func (w *printer) role(name string, user bool, o *RoleOptions) {
	w.str(name)
	if user {
		w.userOptions(o)
		return
	}
	n := 0
	str := func(head string, s *string) {
		if s != nil {
			w.and(n)
			w.put(head)
			w.str(*s)
			n++
		}
	}
	boolean := func(head string, b *bool) {
		if b != nil {
			w.and(n)
			w.put(head, [...]string{"false", "true"}[b2i(*b)])
			n++
		}
	}
	list := func(on bool, head string, items []string) {
		if !on {
			return
		}
		w.and(n)
		n++
		w.put("ACCESS ", head)
		for i, s := range items {
			w.when(i == 0, " {")
			w.comma(i)
			w.str(s)
			w.when(i == len(items)-1, "}")
		}
	}
	str("PASSWORD = ", o.Password)
	str("HASHED PASSWORD = ", o.HashedPassword)
	boolean("SUPERUSER = ", o.Superuser)
	boolean("LOGIN = ", o.Login)
	if o.Options != nil {
		w.and(n)
		n++
		w.put("OPTIONS = ")
		keys := make([]string, 0, len(o.Options))
		for k := range o.Options {
			keys = append(keys, k)
		}
		slices.Sort(keys)
		w.stringMap(o.Options, keys)
	}
	list(o.AllDatacenters, "TO ALL DATACENTERS", nil)
	list(len(o.Datacenters) > 0, "TO DATACENTERS", o.Datacenters)
	list(o.AllCIDRs, "FROM ALL CIDRS", nil)
	list(len(o.CIDRs) > 0, "FROM CIDRS", o.CIDRs)
}

func (w *printer) userOptions(o *RoleOptions) {
	if o.Password != nil {
		w.put(" WITH PASSWORD ")
		w.str(*o.Password)
	}
	if o.HashedPassword != nil {
		w.put(" WITH HASHED PASSWORD ")
		w.str(*o.HashedPassword)
	}
	if o.Superuser != nil {
		w.put([...]string{" NOSUPERUSER", " SUPERUSER"}[b2i(*o.Superuser)])
	}
}
