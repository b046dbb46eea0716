package exec

import (
	"slices"

	"varve/internal/cql"
	"varve/internal/cqltype"
	"varve/internal/schema"
)

// listRoles answers LIST ROLES and LIST USERS.
func (a *adminRun) listRoles(st *cql.ListRoles) (*Result, error) {
	snap, me := a.e.opts.Catalog.Snapshot(), a.s.Role
	if !a.e.opts.Auth || me == "" {
		return nil, unauthorizedf(notAnonymous)
	}
	if st.Of != "" && snap.Roles[st.Of] == nil {
		return nil, invalidf("%s doesn't exist", roleResource(st.Of))
	}
	all := a.e.mayDo(me, "DESCRIBE", allRoles)
	shown := map[string]bool{}
	switch {
	case st.Of != "":
		if !all && !memberships(snap, me, true)[st.Of] {
			return nil, unauthorizedf("You are not authorized to view roles granted to %s ", st.Of)
		}
		shown = memberships(snap, st.Of, !st.NoRecursive)
	case all:
		for name := range snap.Roles {
			shown[name] = true
		}
	default:
		shown = memberships(snap, me, true)
	}
	names := []string{"role", "super", "login", "options", "datacenters"}
	t := newResultTable("system_auth", "roles", names,
		cqltype.Text, cqltype.Boolean, cqltype.Boolean, textMapType, cqltype.Text)
	if st.Users {
		t = newResultTable("system_auth", "users", []string{"name", "super", "datacenters"},
			cqltype.Text, cqltype.Boolean, cqltype.Text)
	}
	eachRole(snap, func(r *schema.Role) {
		super := isSuperuser(snap, r.Name, 0)
		switch {
		case !shown[r.Name] || st.Superusers && !super:
		case !st.Users:
			t.row(textValue(r.Name), boolValue(super), boolValue(r.Login), textMap(r.Options), textValue("ALL"))
		case r.Login:
			t.row(textValue(r.Name), boolValue(super), textValue("ALL"))
		}
	})
	return t.res, nil
}

// listPermissions answers LIST PERMISSIONS.
func (a *adminRun) listPermissions(st *cql.ListPermissions) (*Result, error) {
	snap, me := a.e.opts.Catalog.Snapshot(), a.s.Role
	if !a.e.opts.Auth || me == "" {
		return nil, unauthorizedf(notAnonymous)
	}
	var target resource
	if st.Resource != nil {
		var err error
		if target, err = a.resourceOf(st.Resource); err != nil {
			return nil, err
		}
		if !exists(snap, target) {
			return nil, invalidf("%s doesn't exist", target)
		}
	}
	if st.Of != "" && snap.Roles[st.Of] == nil {
		return nil, invalidf("%s doesn't exist", roleResource(st.Of))
	}
	if !isSuperuser(snap, me, 0) && !(st.Of != "" && memberships(snap, me, true)[st.Of]) {
		whose := "everyone"
		if st.Of != "" {
			whose = st.Of
		}
		return nil, unauthorizedf("You are not authorized to view %s's permissions", whose)
	}
	var of map[string]bool
	if st.Of != "" {
		of = memberships(snap, st.Of, true)
	}
	t := newResultTable("system_auth", "permissions", []string{"role", "username", "resource", "permission"},
		cqltype.Text, cqltype.Text, cqltype.Text, cqltype.Text)
	eachRole(snap, func(r *schema.Role) {
		if of != nil && !of[r.Name] {
			return
		}
		for _, name := range sortedResources(r) {
			if target != "" && !takesIn(name, target, !st.NoRecursive) {
				continue
			}
			for _, p := range grantOrder {
				if slices.Contains(r.Grants[string(name)], p) && (len(st.Permissions) == 0 || slices.Contains(st.Permissions, p)) {
					t.row(textValue(r.Name), textValue(r.Name), textValue(name.String()), textValue(p))
				}
			}
		}
	})
	if t.res.Count == 0 {
		return voidResult(), nil
	}
	return t.res, nil
}

// grantOrder is the order in which permissions are listed.
var grantOrder = []string{
	"CREATE", "ALTER", "DROP", "SELECT", "MODIFY", "AUTHORIZE", "DESCRIBE", "EXECUTE", "UNMASK", "SELECT_MASKED",
}

// takesIn reports that outer is r itself or, with parents, something that contains it.
func takesIn(outer, r resource, parents bool) bool {
	for ; r != ""; r = r.parent() {
		if outer == r {
			return true
		}
		if !parents {
			return false
		}
	}
	return false
}

func sortedResources(r *schema.Role) []resource {
	out := make([]resource, 0, len(r.Grants))
	for name := range r.Grants {
		out = append(out, resource(name))
	}
	slices.Sort(out)
	return out
}
