package store_test

import "context"

var tContext = context.Background()
