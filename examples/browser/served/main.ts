/**
 * The page that a server has at `/`: chat with its model.
 *
 * It is built into the package, with the views of the demo and without an engine.
 *
 * @module
 */
import "./served.css";
import { showError } from "../app/banner.ts";
import { ServedApp } from "./served_app.ts";

new ServedApp().start().catch(showError);
