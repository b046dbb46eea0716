package exec

import (
	"context"
	"maps"
	"slices"

	"varve/internal/schema"
)

var authVirtualTables = []VirtualTable{
	{Keyspace: "system_auth", Name: "roles", Rows: roleRows},
	{Keyspace: "system_auth", Name: "role_members", Rows: roleMemberRows},
	{Keyspace: "system_auth", Name: "role_permissions", Rows: rolePermissionRows},
	{Keyspace: "system_auth", Name: "resource_role_permissons_index", Rows: resourceRoleRows},
}

func eachRole(snap *schema.Snapshot, f func(*schema.Role)) {
	for _, name := range slices.Sorted(maps.Keys(snap.Roles)) {
		f(snap.Roles[name])
	}
}

func roleRows(_ context.Context, e *Engine, _ *Session) ([][][]byte, error) {
	snap := e.opts.Catalog.Snapshot()
	v := newVirtualRows(snap, "system_auth", "roles")
	eachRole(snap, func(r *schema.Role) {
		v.next().text("role", r.Name).boolean("can_login", r.Login).boolean("is_superuser", r.Superuser)
		if r.SaltedHash != "" {
			v.text("salted_hash", r.SaltedHash)
		}
		if len(r.MemberOf) > 0 {
			v.set("member_of", textSet(slices.Clone(r.MemberOf)))
		}
	})
	return v.rows, nil
}

func roleMemberRows(_ context.Context, e *Engine, _ *Session) ([][][]byte, error) {
	snap := e.opts.Catalog.Snapshot()
	v := newVirtualRows(snap, "system_auth", "role_members")
	eachRole(snap, func(r *schema.Role) {
		for _, of := range r.MemberOf {
			v.next().text("role", of).text("member", r.Name)
		}
	})
	return v.rows, nil
}

func rolePermissionRows(_ context.Context, e *Engine, _ *Session) ([][][]byte, error) {
	snap := e.opts.Catalog.Snapshot()
	v := newVirtualRows(snap, "system_auth", "role_permissions")
	eachRole(snap, func(r *schema.Role) {
		for _, resource := range slices.Sorted(maps.Keys(r.Grants)) {
			v.next().text("role", r.Name).text("resource", resource).
				set("permissions", textSet(slices.Clone(r.Grants[resource])))
		}
	})
	return v.rows, nil
}

func resourceRoleRows(_ context.Context, e *Engine, _ *Session) ([][][]byte, error) {
	snap := e.opts.Catalog.Snapshot()
	v := newVirtualRows(snap, "system_auth", "resource_role_permissons_index")
	eachRole(snap, func(r *schema.Role) {
		for _, resource := range slices.Sorted(maps.Keys(r.Grants)) {
			v.next().text("resource", resource).text("role", r.Name)
		}
	})
	return v.rows, nil
}
