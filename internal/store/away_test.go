package store_test

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"patchbay/internal/store"
)

// A database that stops, starts or is silent is away; an invalid statement is another error.
func TestIsAway(t *testing.T) {
	for _, err := range []error{
		&pgconn.PgError{Code: "57P01"}, fmt.Errorf("connect: %w", &pgconn.PgError{Code: "57P03"}),
		&pgconn.PgError{Code: "57014"},
		&pgconn.PgError{Code: "53100"}, driver.ErrBadConn, io.ErrUnexpectedEOF, context.DeadlineExceeded,
	} {
		if !store.IsAway(err) {
			t.Errorf("%v is not away", err)
		}
	}
	for _, err := range []error{nil, store.ErrNotFound, store.ErrExists, context.Canceled, errors.New("x"),
		&pgconn.PgError{Code: "42601"}, &pgconn.PgError{Code: "40P01"}} {
		if store.IsAway(err) {
			t.Errorf("%v is away", err)
		}
	}
}
