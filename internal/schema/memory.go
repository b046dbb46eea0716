package schema

import (
	"bytes"
	"context"
	"sync"
)

// MemoryStorage is a Storage that keeps records in memory, for tools and tests
// that want a catalogue without a store.
type MemoryStorage struct {
	mu      sync.Mutex
	records map[string][]byte
}

// NewMemoryStorage returns an empty storage.
func NewMemoryStorage() *MemoryStorage {
	return &MemoryStorage{records: map[string][]byte{}}
}

// LoadRecords implements Storage.
func (m *MemoryStorage) LoadRecords(context.Context) ([]Record, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	records := make([]Record, 0, len(m.records))
	for key, value := range m.records {
		records = append(records, Record{Key: key, Value: bytes.Clone(value)})
	}
	return records, nil
}

// SaveRecords implements Storage.
func (m *MemoryStorage) SaveRecords(_ context.Context, records []Record) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range records {
		if r.Value == nil {
			delete(m.records, r.Key)
		} else {
			m.records[r.Key] = bytes.Clone(r.Value)
		}
	}
	return nil
}
