import pilotlight from './index.js';

export const { serve, refuse, overloaded, tooLarge, log } = pilotlight;
export default pilotlight;
