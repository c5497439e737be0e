package schemaform

import "patchbay/internal/i18n"

const (
	msgNeeded     = i18n.Message("This is needed.")
	msgLong       = i18n.Message("It may have %d characters at most.")
	msgNoWhole    = i18n.Message("It has to be a whole number.")
	msgNoNumber   = i18n.Message("It has to be a number.")
	msgLess       = i18n.Message("It has to be %s at least.")
	msgMore       = i18n.Message("It may be %s at most.")
	msgNoChoice   = i18n.Message("Choose one of the list.")
	msgNoJSON     = i18n.Message("This is no valid JSON.")
	msgNoObject   = i18n.Message("It has to be a JSON object, such as {\"name\": 1}.")
	msgNoList     = i18n.Message("It has to be a JSON list, such as [1, 2].")
	msgLineNumber = i18n.Message("“%s” is not a number that fits.")

	msgRest      = i18n.Message("Other arguments")
	msgRestHint  = i18n.Message("What is not listed, as a JSON object; it may stay empty.")
	msgChoose    = i18n.Message("Choose …")
	msgNothing   = i18n.Message("(not given)")
	msgYes       = i18n.Message("yes")
	msgNo        = i18n.Message("no")
	msgOptional  = i18n.Message("optional")
	msgEachLine  = i18n.Message("One on each line.")
	msgAsJSON    = i18n.Message("Written as JSON.")
	msgFromTo    = i18n.Message("From %s to %s.")
	msgFrom      = i18n.Message("%s at least.")
	msgUpTo      = i18n.Message("%s at most.")
	msgTheNumber = i18n.Message("the value")
)
