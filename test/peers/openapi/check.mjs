// Says what is wrong with documents of OpenAPI 3.1: each line of standard input is one,
// and is answered with a line, a list of complaints. It is empty if nothing is wrong.
import {readFileSync} from "node:fs"
import {createRequire} from "node:module"
import {createInterface} from "node:readline"
import {Validator} from "@seriousme/openapi-schema-validator"
import Ajv2020 from "ajv/dist/2020.js"
import addFormats from "ajv-formats"

// The official schema takes any object for a Schema Object. Those of 3.1 are JSON Schemas
// of 2020-12 unless they say otherwise, so here they have to be.
const file = createRequire(import.meta.url).resolve("@seriousme/openapi-schema-validator/schemas/v3.1/schema.json")
const official = JSON.parse(readFileSync(file, "utf8"))
if (!official.$id.startsWith("https://spec.openapis.org/oas/3.1/schema/") || !official.$defs.schema) throw new Error("this is not the schema of OpenAPI 3.1")
official.$defs.schema = {$ref: "https://json-schema.org/draft/2020-12/schema"}
const ajv = new Ajv2020({strict: false, allErrors: true})
addFormats.default(ajv)
ajv.addFormat("media-range", true)
const strict = ajv.compile(official)

const told = errors => typeof errors === "string" ? [errors] : [errors].flat().map(e => `${e.instancePath ?? ""} ${e.message ?? e}`)

for await (const line of createInterface({input: process.stdin})) {
  const complaints = []
  // It also looks whether what is referred to is there. The copy is because it resolves
  // in place.
  const said = await new Validator().validate(JSON.parse(line))
  if (!said.valid) complaints.push(...told(said.errors))
  if (!strict(JSON.parse(line))) complaints.push(...told(strict.errors))
  console.log(JSON.stringify(complaints))
}
