package problem

import "net/http"

// Code is the stable reason of an [Error], for programs and metrics.
type Code string

// The codes.
const (
	Invalid      Code = "invalid"
	Unauthorized Code = "unauthorized"
	Denied       Code = "denied"
	NotFound     Code = "not_found"
	Conflict     Code = "conflict"
	TooLarge     Code = "too_large"
	RateLimited  Code = "rate_limited"
	Internal     Code = "internal"
	Unavailable  Code = "unavailable"
	TimedOut     Code = "timeout"
)

// Codes lists the codes, with their meaning in the manual.
var Codes = []struct {
	Code    Code
	Status  int // HTTP status
	Meaning string
}{
	{Invalid, http.StatusBadRequest, "The input is invalid; the message says what is expected."},
	{Unauthorized, http.StatusUnauthorized,
		"The key is missing, unknown, revoked or expired, or lacks a scope."},
	{Denied, http.StatusForbidden, "The account, the key or a rule does not allow it."},
	{NotFound, http.StatusNotFound, "It does not exist, or belongs to somebody else."},
	{Conflict, http.StatusConflict, "It conflicts with something that exists, or that changed meanwhile."},
	{TooLarge, http.StatusRequestEntityTooLarge, "It exceeds a size limit."},
	{RateLimited, http.StatusTooManyRequests, "Too many attempts; wait before the next one."},
	{Internal, http.StatusInternalServerError,
		"An error of the server; its log has the details under the request's ID."},
	{Unavailable, http.StatusServiceUnavailable,
		"The device, bot, database or disk that it needs is not available; try again later."},
	{TimedOut, http.StatusGatewayTimeout, "There was no result in time."},
}

// status maps the codes to HTTP statuses.
var status = func() map[Code]int {
	m := make(map[Code]int, len(Codes))
	for _, c := range Codes {
		m[c.Code] = c.Status
	}
	return m
}()

// Status returns the HTTP status for a code.
func (c Code) Status() int {
	if s := status[c]; s != 0 {
		return s
	}
	return http.StatusInternalServerError
}
