package collector

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// notAllowedError is a table whose columns may not be read.
type notAllowedError struct {
	table   string
	columns []string
}

func (e notAllowedError) Error() string {
	return fmt.Sprintf("the role may not read %s of %s: GRANT SELECT (%s) ON %s to it", list(e.columns), e.table, list(quoted(e.columns)), e.table)
}

// notSpendLogsError is a table that is another than LiteLLM's.
type notSpendLogsError struct{ table, column string }

func (e notSpendLogsError) Error() string {
	return fmt.Sprintf("%s has no column %s: is it LiteLLM's table of calls? See schema and table", e.table, e.column)
}

// addressError is a connection string that cannot be read; it says nothing of
// the string, which may be anything.
type addressError struct{ text string }

func (e addressError) Error() string { return e.text }

func list(names []string) string { return strings.Join(names, ", ") }

// quoted writes names as SQL wants them.
func quoted(names []string) []string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = n
		if n != strings.ToLower(n) {
			out[i] = pgx.Identifier{n}.Sanitize()
		}
	}
	return out
}

// explainDatabase says in plain words why a read failed. Texts of the driver
// hold connection strings, and texts of the server may hold values of rows:
// neither is passed on. host is the server's host and port.
func explainDatabase(err error, host, table string, timeout time.Duration) failure {
	var allowed notAllowedError
	var other notSpendLogsError
	var address addressError
	switch {
	case errors.As(err, &allowed):
		return failure{StateUnauthorised, allowed.Error()}
	case errors.As(err, &other):
		return failure{StateNoMetrics, other.Error()}
	case errors.As(err, &address):
		return failure{StateDown, address.Error()}
	case errors.Is(err, pgx.ErrNoRows):
		return failure{StateNotFound, fmt.Sprintf("there is no table %s in this database: check the database in the dsn, schema and table", table)}
	}
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		return explainServer(pg, host, timeout)
	}
	if dns, ok := errors.AsType[*net.DNSError](err); ok && !errors.Is(err, context.DeadlineExceeded) {
		return failure{StateDown, fmt.Sprintf("the name %q does not resolve: check the dsn's host and the name server", dns.Name)}
	}
	switch {
	case isTimeout(err), pgconn.Timeout(err):
		return failure{StateTimeout, fmt.Sprintf("no answer from %s: the server is blocked or overloaded, or a firewall drops packets", host)}
	case errors.Is(err, syscall.ECONNREFUSED):
		return failure{StateDown, fmt.Sprintf("%s refused the connection: is the server running, and is the port right?", host)}
	case errors.Is(err, syscall.ENOENT):
		return failure{StateDown, fmt.Sprintf("there is no server's socket at %s: is it running?", host)}
	case isTLS(err):
		return failure{StateDown, fmt.Sprintf("no TLS connection to %s (%s): check sslmode and sslrootcert in the dsn", host, tlsReason(err))}
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed):
		return failure{StateDown, fmt.Sprintf("%s closed the connection: is it restarting, or a pooler before it?", host)}
	default:
		return failure{StateDown, fmt.Sprintf("no connection to %s: check host, port and sslmode in the dsn", host)}
	}
}

// explainServer says what an error of the server itself means, by its code.
func explainServer(pg *pgconn.PgError, host string, timeout time.Duration) failure {
	switch {
	case pg.Code == "57014":
		return failure{StateTimeout, fmt.Sprintf("a query took longer than the timeout of %s and was cancelled: is there an index on (\"startTime\", request_id), and is the server overloaded?", timeout)}
	case pg.Code == "55P03":
		return failure{StateTimeout, "the table is locked: a migration or a cleanup is running"}
	case pg.Code == "25P03":
		return failure{StateTimeout, "the server ended an idle transaction: is kvwatch starved of CPU?"}
	case strings.HasPrefix(pg.Code, "28"):
		return failure{StateUnauthorised, fmt.Sprintf("%s refused the user or the password (SQLSTATE %s): check dsn_file and pg_hba.conf", host, pg.Code)}
	case pg.Code == "42501":
		return failure{StateUnauthorised, "the role may not read the table: grant it SELECT on the columns that deploy/docs/spend-logs.md lists, and USAGE on the schema"}
	case pg.Code == "3D000":
		return failure{StateNotFound, "there is no such database on " + host + ": check the dsn"}
	case strings.HasPrefix(pg.Code, "42"):
		return failure{StateNoMetrics, fmt.Sprintf("the table cannot be read as LiteLLM's (SQLSTATE %s): its columns are looked up again at the next read", pg.Code)}
	case strings.HasPrefix(pg.Code, "53"):
		return failure{StateOverloaded, fmt.Sprintf("%s is out of connections or memory (SQLSTATE %s)", host, pg.Code)}
	case strings.HasPrefix(pg.Code, "57P"):
		return failure{StateDown, fmt.Sprintf("%s is stopping or starting (SQLSTATE %s)", host, pg.Code)}
	default:
		return failure{StateDown, fmt.Sprintf("%s answered with an error (SQLSTATE %s)", host, pg.Code)}
	}
}
