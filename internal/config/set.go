package config

import (
	"fmt"
	"reflect"
	"sort"
	"strconv"
	"strings"
	"time"
)

// EnvPrefix begins the environment variables that set keys: VARVE_CQL,
// VARVE_CQL_TLS_CERTIFICATE and so on.
const EnvPrefix = "VARVE_"

// Keys lists every key that Set takes, nested ones with a dot.
func Keys() []string {
	var out []string
	walk(reflect.ValueOf(Default()).Elem(), "", func(key string, _ reflect.Value) { out = append(out, key) })
	sort.Strings(out)
	return out
}

// Set sets one key from text; lists are separated by commas.
func (c *Config) Set(key, value string) error {
	var field reflect.Value
	walk(reflect.ValueOf(c).Elem(), "", func(k string, v reflect.Value) {
		if k == key {
			field = v
		}
	})
	if !field.IsValid() {
		return fmt.Errorf("there is no setting %q", key)
	}
	if err := setField(field, value); err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	return nil
}

// LoadEnv takes settings from the environment (as os.Environ gives it).
// Variables with the prefix that name no setting are refused.
func (c *Config) LoadEnv(environ []string) error {
	byEnv := map[string]string{}
	for _, k := range Keys() {
		byEnv[EnvPrefix+strings.ToUpper(strings.ReplaceAll(k, ".", "_"))] = k
	}
	for _, e := range environ {
		name, value, _ := strings.Cut(e, "=")
		if !strings.HasPrefix(name, EnvPrefix) || name == EnvPrefix+"CONFIG" || strings.HasPrefix(name, EnvPrefix+"TEST_") {
			continue
		}
		key, ok := byEnv[name]
		// Kubernetes gives every process such variables for a service called varve.
		if !ok && (strings.HasPrefix(name, EnvPrefix+"SERVICE_") || strings.HasPrefix(name, EnvPrefix+"PORT")) {
			continue
		}
		if !ok {
			return fmt.Errorf("environment variable %s names no setting", name)
		}
		if err := c.Set(key, value); err != nil {
			return fmt.Errorf("environment variable %s: %w", name, err)
		}
	}
	return nil
}

// Values lists every key with its value as text, in the order of Config.
func (c *Config) Values() [][2]string {
	var out [][2]string
	walk(reflect.ValueOf(c).Elem(), "", func(key string, v reflect.Value) {
		var text string
		if list, ok := v.Interface().([]string); ok {
			text = strings.Join(list, ",")
		} else {
			text = fmt.Sprint(v.Interface())
		}
		out = append(out, [2]string{key, text})
	})
	return out
}

func walk(v reflect.Value, prefix string, f func(string, reflect.Value)) {
	for i := range v.NumField() {
		if !v.Type().Field(i).IsExported() {
			continue
		}
		key := prefix + v.Type().Field(i).Tag.Get("yaml")
		if fv := v.Field(i); strings.HasSuffix(key, ",inline") {
			walk(fv, prefix, f)
		} else if fv.Kind() == reflect.Struct {
			walk(fv, key+".", f)
		} else {
			f(key, fv)
		}
	}
}

func setField(f reflect.Value, value string) error {
	switch p := f.Addr().Interface().(type) {
	case *string:
		*p = value
	case *bool:
		b, err := strconv.ParseBool(value)
		if err != nil {
			return fmt.Errorf("%q is not true or false", value)
		}
		*p = b
	case *int64:
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil {
			return fmt.Errorf("%q is not a whole number", value)
		}
		*p = n
	case interface{ setText(string) error }:
		return p.setText(value)
	case *Bytes:
		b, err := ParseBytes(value)
		if err != nil {
			return err
		}
		*p = b
	case *time.Duration:
		d, err := time.ParseDuration(value)
		if err != nil {
			return fmt.Errorf("%q is not a duration such as 500ms or 10s", value)
		}
		*p = d
	case *[]string:
		*p = nil
		for _, s := range strings.Split(value, ",") {
			if s = strings.TrimSpace(s); s != "" {
				*p = append(*p, s)
			}
		}
	default:
		return fmt.Errorf("settings of type %s cannot be set from text", f.Type())
	}
	return nil
}
