package console

import (
	"github.com/prometheus/client_golang/prometheus"

	"varve/internal/server"
)

// metrics collects everything at the time it is asked for, so that the hot
// path only adds to plain counters.
type metrics struct{ w *Web }

// Describe implements prometheus.Collector: the set of metrics is not fixed.
func (m *metrics) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (m *metrics) Collect(ch chan<- prometheus.Metric) {
	send := func(kind prometheus.ValueType, name, help string, v float64, labels ...string) {
		var names, values []string
		for i := 0; i+1 < len(labels); i += 2 {
			names, values = append(names, labels[i]), append(values, labels[i+1])
		}
		ch <- prometheus.MustNewConstMetric(prometheus.NewDesc("varve_"+name, help, names, nil), kind, v, values...)
	}
	send(prometheus.GaugeValue, "build_info", "The running version.", 1, "version", m.w.Version)
	m.server(send, ch)
	m.store(ch)
}

func (m *metrics) server(send func(prometheus.ValueType, string, string, float64, ...string), ch chan<- prometheus.Metric) {
	s := &m.w.Server.Metrics
	send(prometheus.GaugeValue, "connections", "Open CQL connections.", float64(s.Connections.Load()))
	for _, c := range []struct {
		name, help string
		v          int64
	}{
		{"connections_total", "CQL connections accepted.", s.ConnectionsTotal.Load()},
		{"connections_refused_total", "CQL connections refused at a limit.", s.ConnectionsRefused.Load()},
		{"auth_success_total", "Logins that succeeded.", s.AuthSuccess.Load()},
		{"auth_failure_total", "Logins that failed.", s.AuthFailure.Load()},
		{"received_bytes_total", "Bytes received from CQL clients.", s.BytesReceived.Load()},
		{"sent_bytes_total", "Bytes sent to CQL clients.", s.BytesSent.Load()},
		{"protocol_errors_total", "Requests that broke the protocol.", s.ProtocolErrors.Load()},
		{"overloaded_total", "Requests refused as overloaded.", s.Overloaded.Load()},
		{"paused_total", "Times a connection's reader waited at a limit.", s.Paused.Load()},
		{"socket_reads_total", "Read calls that brought bytes.", s.Reads.Load()},
		{"socket_writes_total", "Write calls.", s.Writes.Load()},
		{"requests_handed_over_total", "Requests that ran long and gave up the connection's reader.", s.Stolen.Load()},
		{"requests_detached_total", "Requests given a goroutine of their own.", s.Detached.Load()},
		{"slow_clients_total", "Connections closed because answers were not taken.", s.SlowClients.Load()},
		{"panics_total", "Requests that ended in a defect of the server.", s.Panics.Load()},
	} {
		send(prometheus.CounterValue, c.name, c.help, float64(c.v))
	}
	for k := range server.NumKinds {
		km := &s.Kinds[k]
		h, total := histogram("varve_request_seconds", "Time from a request's last byte to its answer, by kind.", "kind", k.String(), &km.Latency)
		send(prometheus.CounterValue, "requests_total", "Requests by kind.", float64(total), "kind", k.String())
		send(prometheus.CounterValue, "request_errors_total", "Requests answered with an error, by kind.", float64(km.Errors.Load()), "kind", k.String())
		ch <- h
	}
	for st := range server.NumStatements {
		h, _ := histogram("varve_statement_seconds",
			"Time from a request's last byte to its answer, by what the statement does.", "statement", st.String(), &s.Statements[st])
		ch <- h
	}
}

// histogram shows one of the server's, and how many requests it counts.
func histogram(name, help, label, value string, h *server.Histogram) (prometheus.Metric, uint64) {
	sum, counts := h.Snapshot()
	// One Prometheus bucket for four of the server's: a factor of two is enough to see.
	buckets, total := map[float64]uint64{}, uint64(0)
	for i, n := range counts {
		total += uint64(n)
		if i%4 == 0 && server.BucketBound(i) > 0 {
			buckets[server.BucketBound(i).Seconds()] = total
		}
	}
	return prometheus.MustNewConstHistogram(prometheus.NewDesc(name, help, []string{label}, nil), total, sum.Seconds(), buckets, value), total
}
