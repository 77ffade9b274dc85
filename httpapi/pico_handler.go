package httpapi

import "net/http"

func (a *API) servePico(w http.ResponseWriter, r *http.Request) { http.NotFound(w, r) }
