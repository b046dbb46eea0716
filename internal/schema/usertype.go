package schema

import (
	"maps"
	"slices"
	"strings"

	"varve/internal/cql"
	"varve/internal/cqltype"
)

func (d *draft) createType(st *cql.CreateType) (*Result, error) {
	ks, err := d.keyspaceName(st.Type.Keyspace)
	if err != nil {
		return nil, err
	}
	if err := d.changeable(ks, "CREATE", shownTables(ks)); err != nil {
		return nil, err
	}
	k := d.snap.Keyspaces[ks]
	if k == nil {
		return nil, noKeyspace(ks)
	}
	name := st.Type.Name
	if k.Types[name] != nil {
		if st.IfNotExists {
			return &Result{}, nil
		}
		return nil, invalid("A user type with name '%s' already exists", name)
	}
	t := &cqltype.Type{Kind: cqltype.KindUDT, Keyspace: ks, Name: name, FieldNames: slices.Clone(st.Fields)}
	for i, f := range st.Fields {
		if slices.Contains(st.Fields[:i], f) {
			return nil, invalid("Duplicate field name '%s' in type '%s'", f, name)
		}
	}
	for _, ref := range st.Types {
		if err := d.checkFieldType(k, ref); err != nil {
			return nil, err
		}
	}
	for _, ref := range st.Types {
		e, err := d.snap.ResolveType(ks, ref)
		if err != nil {
			return nil, err
		}
		t.Elems = append(t.Elems, e)
	}
	if err := checkTypeSize(t); err != nil {
		return nil, err
	}
	d.putType(t)
	return &Result{Event: &Event{Change: "CREATED", Target: "TYPE", Keyspace: ks, Name: name}}, nil
}

func (d *draft) putType(t *cqltype.Type) {
	d.keyspace(t.Keyspace).Types[t.Name] = t
	d.dirty[typeKey(t.Keyspace, t.Name)] = true
}

// checkFieldType refuses what a user type's field cannot be, as written.
func (d *draft) checkFieldType(k *Keyspace, ref cql.TypeRef) error {
	if isNative(ref, "counter") {
		return invalid("A user type cannot contain counters")
	}
	if ref.ClassName != "" || len(ref.Args) > 0 {
		return nil
	}
	if ref.Quoted || ref.Name.Keyspace != "" || nativeTypes[ref.Name.Name] == nil {
		return invalid("A user type cannot contain non-frozen UDTs")
	}
	return nil
}

func (d *draft) alterType(st *cql.AlterType) (*Result, error) {
	ks, err := d.keyspaceName(st.Type.Keyspace)
	if err != nil {
		return nil, err
	}
	if err := d.changeable(ks, "ALTER", shownTables(ks)); err != nil {
		return nil, err
	}
	k := d.keyspace(ks)
	var old *cqltype.Type
	if k != nil {
		old = k.Types[st.Type.Name]
	}
	if old == nil {
		if st.IfExists {
			return &Result{}, nil
		}
		return nil, invalid("Type %s.%s doesn't exist", ks, st.Type.Name)
	}
	def := *old
	def.FieldNames, def.Elems = slices.Clone(old.FieldNames), slices.Clone(old.Elems)
	changed := true
	switch {
	case st.AlterField != "":
		return nil, invalid("Altering field types is no longer supported")
	case st.AddField != "":
		changed, err = d.addField(k, &def, st)
	default:
		err = renameFields(&def, st)
	}
	if err != nil || !changed {
		return &Result{}, err
	}
	if err := d.replaceUserType(k, &def); err != nil {
		return nil, err
	}
	return &Result{Event: &Event{Change: "UPDATED", Target: "TYPE", Keyspace: ks, Name: def.Name}}, nil
}

func (d *draft) addField(k *Keyspace, def *cqltype.Type, st *cql.AlterType) (bool, error) {
	if slices.Contains(def.FieldNames, st.AddField) {
		if st.AddIfNotExists {
			return false, nil
		}
		return false, invalid("Cannot add field %s to type %s: a field with name %s already exists",
			st.AddField, qualified(def), st.AddField)
	}
	if err := d.checkFieldType(k, st.AddType); err != nil {
		return false, err
	}
	t, err := d.snap.ResolveType(k.Name, st.AddType)
	if err != nil {
		return false, err
	}
	if usesType(t, def.Name) {
		return false, invalid("Cannot add new field %s of type %s to user type %s as it would create a circular reference",
			st.AddField, qualified(t), qualified(def))
	}
	var users []string
	for _, name := range slices.Sorted(maps.Keys(k.Tables)) {
		for _, c := range k.Tables[name].PartitionKey {
			if usesType(c.Type, def.Name) && !slices.Contains(users, k.Name+"."+name) {
				users = append(users, k.Name+"."+name)
			}
		}
	}
	if len(users) > 0 {
		return false, invalid("Cannot add new field %s of type %s to user type %s as the type is being used in "+
			"partition key by the following tables: %s", st.AddField, qualified(t), qualified(def), strings.Join(users, ", "))
	}
	def.FieldNames = append(def.FieldNames, st.AddField)
	def.Elems = append(def.Elems, t)
	return true, nil
}

func renameFields(def *cqltype.Type, st *cql.AlterType) error {
	for i, from := range st.RenameFrom {
		at := slices.Index(def.FieldNames, from)
		if at < 0 {
			if st.RenameIfExists {
				continue
			}
			return invalid("Unkown field %s in user type %s", from, qualified(def))
		}
		def.FieldNames[at] = st.RenameTo[i]
	}
	for i, f := range def.FieldNames {
		if slices.Contains(def.FieldNames[:i], f) {
			return invalid("Duplicate field name %s in type %s", f, def.Keyspace)
		}
	}
	return nil
}

// replaceUserType puts a changed definition in place of the old one wherever
// it is used. Only the type's own record changes: others name it.
func (d *draft) replaceUserType(k *Keyspace, def *cqltype.Type) error {
	d.putType(def)
	for name, t := range k.Types {
		if t != def && usesType(t, def.Name) {
			k.Types[name] = replaceType(t, def)
		}
		if err := checkTypeSize(k.Types[name]); err != nil {
			return err
		}
	}
	for name, t := range k.Tables {
		n := t.clone()
		changed := false
		for i, c := range n.ByID {
			if c != nil && usesType(c.Type, def.Name) {
				cc := *c
				cc.Type = replaceType(c.Type, def)
				n.ByID[i], changed = &cc, true
			}
		}
		if changed {
			n.mustArrange()
			k.Tables[name] = n
		}
	}
	return nil
}

func (d *draft) dropType(st *cql.DropType) (*Result, error) {
	ks, err := d.keyspaceName(st.Type.Keyspace)
	if err != nil {
		return nil, err
	}
	if err := d.changeable(ks, "DROP", shownTables(ks)); err != nil {
		return nil, err
	}
	name := st.Type.Name
	k := d.snap.Keyspaces[ks]
	if k == nil || k.Types[name] == nil {
		if st.IfExists {
			return &Result{}, nil
		}
		return nil, invalid("Type '%s.%s' doesn't exist", ks, name)
	}
	var users []string
	for _, other := range slices.Sorted(maps.Keys(k.Types)) {
		if other != name && usesType(k.Types[other], name) {
			users = append(users, other)
		}
	}
	if len(users) > 0 {
		return nil, invalid("Cannot drop user type '%s.%s' as it is still used by user types %s",
			ks, name, strings.Join(users, ", "))
	}
	for _, table := range slices.Sorted(maps.Keys(k.Tables)) {
		t := k.Tables[table]
		if slices.ContainsFunc(t.ByID, func(c *Column) bool { return c != nil && usesType(c.Type, name) }) {
			users = append(users, table)
		}
	}
	if len(users) > 0 {
		return nil, invalid("Cannot drop user type '%s.%s' as it is still used by tables %s",
			ks, name, strings.Join(users, ", "))
	}
	delete(d.keyspace(ks).Types, name)
	d.dirty[typeKey(ks, name)] = true
	return &Result{Event: &Event{Change: "DROPPED", Target: "TYPE", Keyspace: ks, Name: name}}, nil
}

// expandUserTypes replaces user types by tuples of their fields.
func expandUserTypes(t *cqltype.Type) *cqltype.Type {
	if len(t.Elems) == 0 {
		return t
	}
	n := *t
	n.Elems = make([]*cqltype.Type, len(t.Elems))
	for i, e := range t.Elems {
		n.Elems[i] = expandUserTypes(e)
		if t.Kind == cqltype.KindUDT {
			n.Elems[i] = n.Elems[i].AsFrozen()
		}
	}
	if t.Kind == cqltype.KindUDT {
		return cqltype.TupleOf(n.Elems...)
	}
	return &n
}
