package api

import "patchbay/internal/control"

// Operations.
var (
	Calls      = define("GET /api/v1/calls", "List the calls of tools, newest first", (*control.Service).Calls)
	Turns      = define("GET /api/v1/turns", "List the records of turns, newest first", (*control.Service).Turns)
	TurnRecord = define("GET /api/v1/turns/{turn}", "Show the record of a turn, with the calls that were made in it", (*control.Service).TurnRecord)
	Stats      = define("GET /api/v1/stats", "Count turns, failures and connected devices of the last day", (*control.Service).Stats)
	Forget     = define("DELETE /api/v1/records", "Delete what was said, records of turns, or arguments of calls, for good", (*control.Service).Forget)
	Keys       = define("GET /api/v1/keys", "List keys, newest first", (*control.Service).Keys)
	AddKey     = define("POST /api/v1/keys", "Make a key, whose secret is told this once", (*control.Service).AddKey)
	Key        = define("GET /api/v1/keys/{key}", "Show a key", (*control.Service).Key)
	ChangeKey  = define("PATCH /api/v1/keys/{key}", "Give a key other rules", (*control.Service).ChangeKey)
	RevokeKey  = define("DELETE /api/v1/keys/{key}", "Revoke a key", (*control.Service).RevokeKey)
)

// recordOperations adds the operations on records.
func (s *Server) recordOperations() {
	s.operate(Calls, Turns, TurnRecord, Stats, Forget)
}

// keyOperations adds the operations on keys of programs.
func (s *Server) keyOperations() {
	s.operate(Keys, AddKey, Key, ChangeKey, RevokeKey)
}
