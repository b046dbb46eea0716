package cli

import (
	"context"
	"fmt"
	"io"
	"sort"
	"strconv"
	"strings"

	"varve/internal/console"
)

func nodetoolStatus(ctx context.Context, c *console.Client, w io.Writer, _ []string) error {
	var i console.Info
	if err := c.Call(ctx, "/v1/info", nil, &i); err != nil {
		return err
	}
	dc := "Datacenter: " + i.Datacenter
	fmt.Fprintf(w, "%s\n%s\nStatus=Up/Down\n|/ State=Normal/Leaving/Joining/Moving\n", dc, strings.Repeat("=", len(dc)))
	writeColumns(w, "  ", [][]string{
		{"--", "Address", "Load", "Tokens", "Owns (effective)", "Host ID", "Rack"},
		{"UN", hostOf(i.Address), sizeText(i.LoadBytes), strconv.Itoa(len(i.Tokens)), "100.0%", i.HostID, i.Rack},
	})
	fmt.Fprintln(w)
	return nil
}

func nodetoolInfo(ctx context.Context, c *console.Client, w io.Writer, tokens bool) error {
	var i console.Info
	if err := c.Call(ctx, "/v1/info", nil, &i); err != nil {
		return err
	}
	row := func(name, format string, args ...any) {
		fmt.Fprintf(w, "%-23s: %s\n", name, fmt.Sprintf(format, args...))
	}
	row("ID", "%s", i.HostID)
	row("Gossip active", "false")
	row("Native Transport active", "true")
	row("Load", "%s", sizeText(i.LoadBytes))
	row("Generation No", "%d", i.Started)
	row("Uptime (seconds)", "%d", i.UptimeSeconds)
	limit := "no limit"
	if i.HeapLimitBytes > 0 {
		limit = fmt.Sprintf("%.2f", float64(i.HeapLimitBytes)/(1<<20))
	}
	row("Heap Memory (MB)", "%.2f / %s", float64(i.HeapUsedBytes)/(1<<20), limit)
	row("Data Center", "%s", i.Datacenter)
	row("Rack", "%s", i.Rack)
	rate := "NaN"
	if n := i.CacheHits + i.CacheMisses; n > 0 {
		rate = fmt.Sprintf("%.3f", float64(i.CacheHits)/float64(n))
	}
	row("Block Cache", "size %s, capacity %s, %d hits, %d requests, %s hit rate",
		sizeText(i.CacheBytes), sizeText(i.CacheLimitBytes), i.CacheHits, i.CacheHits+i.CacheMisses, rate)
	if tokens {
		for _, t := range i.Tokens {
			row("Token", "%d", t)
		}
	} else {
		row("Token", "(invoke with -T/--tokens to see all %d tokens)", len(i.Tokens))
	}
	row("Varve", "%s", i.Version)
	return nil
}

func nodetoolVersion(ctx context.Context, c *console.Client, w io.Writer, _ []string) error {
	var i console.Info
	if err := c.Call(ctx, "/v1/info", nil, &i); err != nil {
		return err
	}
	fmt.Fprintf(w, "ReleaseVersion: %s\n", i.ReleaseVersion)
	return nil
}

func nodetoolDescribeCluster(ctx context.Context, c *console.Client, w io.Writer, _ []string) error {
	var i console.Info
	if err := c.Call(ctx, "/v1/info", nil, &i); err != nil {
		return err
	}
	var keyspaces []console.Keyspace
	if err := c.Call(ctx, "/v1/keyspaces", nil, &keyspaces); err != nil {
		return err
	}
	host := hostOf(i.Address)
	fmt.Fprintf(w, "Cluster Information:\n\tName: %s\n\tSnitch: org.apache.cassandra.locator.SimpleSnitch\n"+
		"\tDynamicEndPointSnitch: disabled\n\tPartitioner: org.apache.cassandra.dht.Murmur3Partitioner\n"+
		"\tSchema versions:\n\t\t%s: [%s]\n\n", i.ClusterName, i.SchemaVersion, host)
	fmt.Fprint(w, "Stats for all nodes:\n\tLive: 1\n\tJoining: 0\n\tMoving: 0\n\tLeaving: 0\n\tUnreachable: 0\n\n")
	fmt.Fprintf(w, "Data Centers: \n\t%s #Nodes: 1 #Down: 0\n\n", i.Datacenter)
	fmt.Fprintf(w, "Database versions:\n\t%s: [%s]\n\nKeyspaces:\n", i.ReleaseVersion, i.Address)
	for _, k := range keyspaces {
		fmt.Fprintf(w, "\t%s -> Replication class: %s\n", k.Name, replicationText(k.Replication))
	}
	return nil
}

func replicationText(r map[string]string) string {
	class := r["class"]
	class = class[strings.LastIndexByte(class, '.')+1:]
	var opts []string
	for k, v := range r {
		if k != "class" {
			opts = append(opts, k+"="+v)
		}
	}
	sort.Strings(opts)
	return class + " {" + strings.Join(opts, ", ") + "}"
}

func hostOf(addr string) string {
	if i := strings.LastIndexByte(addr, ':'); i > 0 {
		return strings.Trim(addr[:i], "[]")
	}
	return addr
}

// sizeText writes a size as Cassandra's FileUtils.stringifyFileSize does.
func sizeText(n int64) string {
	switch f := float64(n); {
	case n >= 1<<40:
		return decimals(f/(1<<40)) + " TiB"
	case n >= 1<<30:
		return decimals(f/(1<<30)) + " GiB"
	case n >= 1<<20:
		return decimals(f/(1<<20)) + " MiB"
	case n >= 1<<10:
		return decimals(f/(1<<10)) + " KiB"
	}
	return strconv.FormatInt(n, 10) + " bytes"
}

func decimals(f float64) string {
	return strings.TrimSuffix(strings.TrimRight(strconv.FormatFloat(f, 'f', 2, 64), "0"), ".")
}

// writeColumns prints rows with columns padded to their widest cell.
func writeColumns(w io.Writer, gap string, rows [][]string) {
	width := make([]int, len(rows[0]))
	for _, r := range rows {
		for i, c := range r {
			width[i] = max(width[i], len(c))
		}
	}
	for _, r := range rows {
		for i, c := range r {
			if i > 0 {
				fmt.Fprint(w, gap)
			}
			fmt.Fprintf(w, "%-*s", width[i], c)
		}
		fmt.Fprintln(w)
	}
}
